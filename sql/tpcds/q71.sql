-- Asks what each brand of one manager sold at breakfast and at dinner time over all channels in November 1999, minute by minute.
-- Shuffles the joined sales of the month by brand and minute.
with sales as (
    select
        ws_ext_sales_price as price,
        ws_item_sk as item_sk,
        ws_sold_date_sk as date_sk,
        ws_sold_time_sk as time_sk
    from web_sales
    union all
    select cs_ext_sales_price, cs_item_sk, cs_sold_date_sk, cs_sold_time_sk from catalog_sales
    union all
    select ss_ext_sales_price, ss_item_sk, ss_sold_date_sk, ss_sold_time_sk from store_sales
)
select i.i_brand_id, i.i_brand, t.t_hour, t.t_minute, sum(s.price) as sales
from sales s
join date_dim d on d.d_date_sk = s.date_sk and d.d_moy = 11 and d.d_year = 1999
join item i on i.i_item_sk = s.item_sk and i.i_manager_id = 1
join time_dim t on t.t_time_sk = s.time_sk and t.t_meal_time in ('breakfast', 'dinner')
group by i.i_brand, i.i_brand_id, t.t_hour, t.t_minute
order by sales desc nulls first, i.i_brand_id, t.t_hour, t.t_minute;
