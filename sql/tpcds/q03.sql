-- Asks what the brands of one manufacturer sell in stores in the November of each year.
-- Shuffles the sales that are left after the filters by year and brand.
select
    d.d_year,
    i.i_brand_id,
    i.i_brand,
    sum(ss.ss_ext_sales_price) as sales
from store_sales ss
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
join item i on i.i_item_sk = ss.ss_item_sk
where d.d_moy = 11
    and i.i_manufact_id = 128
group by d.d_year, i.i_brand_id, i.i_brand
order by d.d_year, sales desc, i.i_brand_id
limit 100;
