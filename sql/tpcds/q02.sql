-- Asks how web and catalog sales of each weekday in the weeks of 2001 relate to the same weekday 53 weeks later.
-- Shuffles both sales tables by week, then the weekly sums by week number to join them.
with sales as (
    select ws_sold_date_sk as sold_date_sk, ws_ext_sales_price as price from web_sales
    union all
    select cs_sold_date_sk, cs_ext_sales_price from catalog_sales
),
weeks as (
    select
        d.d_week_seq as week,
        sum(case when d.d_day_name = 'Sunday' then s.price end) as sunday,
        sum(case when d.d_day_name = 'Monday' then s.price end) as monday,
        sum(case when d.d_day_name = 'Tuesday' then s.price end) as tuesday,
        sum(case when d.d_day_name = 'Wednesday' then s.price end) as wednesday,
        sum(case when d.d_day_name = 'Thursday' then s.price end) as thursday,
        sum(case when d.d_day_name = 'Friday' then s.price end) as friday,
        sum(case when d.d_day_name = 'Saturday' then s.price end) as saturday
    from sales s
    join date_dim d on d.d_date_sk = s.sold_date_sk
    group by d.d_week_seq
),
this_year as (
    select w.* from weeks w join date_dim d on d.d_week_seq = w.week where d.d_year = 2001
),
next_year as (
    select w.* from weeks w join date_dim d on d.d_week_seq = w.week where d.d_year = 2002
)
select
    t.week,
    round(cast(t.sunday as double) / cast(n.sunday as double), 2) as sunday,
    round(cast(t.monday as double) / cast(n.monday as double), 2) as monday,
    round(cast(t.tuesday as double) / cast(n.tuesday as double), 2) as tuesday,
    round(cast(t.wednesday as double) / cast(n.wednesday as double), 2) as wednesday,
    round(cast(t.thursday as double) / cast(n.thursday as double), 2) as thursday,
    round(cast(t.friday as double) / cast(n.friday as double), 2) as friday,
    round(cast(t.saturday as double) / cast(n.saturday as double), 2) as saturday
from this_year t
join next_year n on n.week - 53 = t.week
order by t.week;
