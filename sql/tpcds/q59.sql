-- Asks how each store's sales of each weekday in the weeks of a year relate to the same weekday 52 weeks later.
-- Shuffles store_sales by week and store, then the weekly sums by store to join a week with that of a year later.
with weeks as (
    select
        d.d_week_seq as week,
        ss.ss_store_sk as store_sk,
        sum(case when d.d_day_name = 'Sunday' then ss.ss_sales_price end) as sunday,
        sum(case when d.d_day_name = 'Monday' then ss.ss_sales_price end) as monday,
        sum(case when d.d_day_name = 'Tuesday' then ss.ss_sales_price end) as tuesday,
        sum(case when d.d_day_name = 'Wednesday' then ss.ss_sales_price end) as wednesday,
        sum(case when d.d_day_name = 'Thursday' then ss.ss_sales_price end) as thursday,
        sum(case when d.d_day_name = 'Friday' then ss.ss_sales_price end) as friday,
        sum(case when d.d_day_name = 'Saturday' then ss.ss_sales_price end) as saturday
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    group by d.d_week_seq, ss.ss_store_sk
),
this_year as (
    select s.s_store_name as store_name, s.s_store_id as store_id, w.*
    from weeks w
    join store s on s.s_store_sk = w.store_sk
    join date_dim d on d.d_week_seq = w.week and d.d_month_seq between 1212 and 1223
),
next_year as (
    select s.s_store_id as store_id, w.*
    from weeks w
    join store s on s.s_store_sk = w.store_sk
    join date_dim d on d.d_week_seq = w.week and d.d_month_seq between 1224 and 1235
)
select
    t.store_name,
    t.store_id,
    t.week,
    cast(t.sunday as double) / cast(n.sunday as double) as sunday,
    cast(t.monday as double) / cast(n.monday as double) as monday,
    cast(t.tuesday as double) / cast(n.tuesday as double) as tuesday,
    cast(t.wednesday as double) / cast(n.wednesday as double) as wednesday,
    cast(t.thursday as double) / cast(n.thursday as double) as thursday,
    cast(t.friday as double) / cast(n.friday as double) as friday,
    cast(t.saturday as double) / cast(n.saturday as double) as saturday
from this_year t
join next_year n on n.store_id = t.store_id and n.week = t.week + 52
order by t.store_name nulls first, t.store_id nulls first, t.week nulls first
limit 100;
