-- Asks for the web sales of each category and class in a year, ranked among its siblings, with subtotals.
-- Shuffles the joined sales by category and class for the rollup, then the few sums by level and parent to rank them.
with sales as (
    select
        sum(ws.ws_net_paid) as amount,
        i.i_category as category,
        i.i_class as class,
        grouping(i.i_category) + grouping(i.i_class) as level
    from web_sales ws
    join date_dim d on d.d_date_sk = ws.ws_sold_date_sk and d.d_month_seq between 1200 and 1211
    join item i on i.i_item_sk = ws.ws_item_sk
    group by rollup (i.i_category, i.i_class)
),
ranked as (
    select
        amount,
        category,
        class,
        level,
        case when level = 0 then category end as parent,
        rank() over (
            partition by level, case when level = 0 then category end
            order by amount desc
        ) as position
    from sales
)
select amount, category, class, level, position
from ranked
order by level desc, parent nulls first, position
limit 100;
