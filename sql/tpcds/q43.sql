-- Asks what each eastern store sold on each weekday of 2000.
-- Shuffles the sales with their dates by store.
select
    s.s_store_name,
    s.s_store_id,
    sum(case when d.d_day_name = 'Sunday' then ss.ss_sales_price end) as sunday,
    sum(case when d.d_day_name = 'Monday' then ss.ss_sales_price end) as monday,
    sum(case when d.d_day_name = 'Tuesday' then ss.ss_sales_price end) as tuesday,
    sum(case when d.d_day_name = 'Wednesday' then ss.ss_sales_price end) as wednesday,
    sum(case when d.d_day_name = 'Thursday' then ss.ss_sales_price end) as thursday,
    sum(case when d.d_day_name = 'Friday' then ss.ss_sales_price end) as friday,
    sum(case when d.d_day_name = 'Saturday' then ss.ss_sales_price end) as saturday
from store_sales ss
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year = 2000
join store s on s.s_store_sk = ss.ss_store_sk and s.s_gmt_offset = -5
group by s.s_store_name, s.s_store_id
order by s.s_store_name, s.s_store_id
limit 100;
