-- Asks what each brand of one manager's items sold in stores in November 2000.
-- Shuffles the sales that are left after two joins by brand.
select
    d.d_year,
    i.i_brand_id,
    i.i_brand,
    sum(ss.ss_ext_sales_price) as sales
from store_sales ss
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_moy = 11 and d.d_year = 2000
join item i on i.i_item_sk = ss.ss_item_sk and i.i_manager_id = 1
group by d.d_year, i.i_brand_id, i.i_brand
order by d.d_year, sales desc, i.i_brand_id
limit 100;
