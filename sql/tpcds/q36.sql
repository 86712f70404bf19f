-- Asks for the gross margin of each category and class in Tennessee stores in 2001, ranked among its siblings, with subtotals.
-- Shuffles the joined sales by category and class for the rollup, then the few margins by level and parent to rank them.
with margins as (
    select
        cast(sum(ss.ss_net_profit) as double) / cast(sum(ss.ss_ext_sales_price) as double) as margin,
        i.i_category as category,
        i.i_class as class,
        grouping(i.i_category) + grouping(i.i_class) as level
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year = 2001
    join item i on i.i_item_sk = ss.ss_item_sk
    join store s on s.s_store_sk = ss.ss_store_sk and s.s_state = 'TN'
    group by rollup (i.i_category, i.i_class)
),
ranked as (
    select
        margin,
        category,
        class,
        level,
        case when level = 0 then category end as parent,
        rank() over (
            partition by level, case when level = 0 then category end
            order by margin
        ) as position
    from margins
)
select margin, category, class, level, position
from ranked
order by level desc, parent nulls first, position
limit 100;
