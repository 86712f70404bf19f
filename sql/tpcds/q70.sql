-- Asks for the store profit of each county and state of a year, ranked within the state, where the state is among the best, with subtotals.
-- Shuffles the joined sales by state to pick the states, then by state and county for the rollup and the ranks.
with year_sales as (
    select s.s_state as state, s.s_county as county, ss.ss_net_profit as profit
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_month_seq between 1200 and 1211
    join store s on s.s_store_sk = ss.ss_store_sk
),
state_ranks as (
    select state, rank() over (partition by state order by sum(profit) desc) as position
    from year_sales
    group by state
),
profits as (
    select
        sum(y.profit) as profit,
        y.state,
        y.county,
        grouping(y.state) + grouping(y.county) as level
    from year_sales y
    where y.state in (select state from state_ranks where position <= 5)
    group by rollup (y.state, y.county)
),
ranked as (
    select
        profit,
        state,
        county,
        level,
        case when level = 0 then state end as parent,
        rank() over (
            partition by level, case when level = 0 then state end
            order by profit desc
        ) as position
    from profits
)
select profit, state, county, level, position
from ranked
order by level desc, parent nulls first, position
limit 100;
