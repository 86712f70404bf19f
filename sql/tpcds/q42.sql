-- Asks what each category of one manager's items sold in stores in November 2000.
-- Shuffles the sales that are left after two joins by category.
select
    d.d_year,
    i.i_category_id,
    i.i_category,
    sum(ss.ss_ext_sales_price) as sales
from store_sales ss
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_moy = 11 and d.d_year = 2000
join item i on i.i_item_sk = ss.ss_item_sk and i.i_manager_id = 1
group by d.d_year, i.i_category_id, i.i_category
order by sales desc, d.d_year, i.i_category_id, i.i_category
limit 100;
