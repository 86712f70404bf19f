-- Asks for the ten best and the ten worst items of one store by average profit, side by side.
-- Shuffles the store's sales by item, and gathers the averages in one place to rank them both ways.
with profits as (
    select ss_item_sk as item_sk, avg(ss_net_profit) as profit
    from store_sales
    where ss_store_sk = 4
    group by ss_item_sk
    having avg(ss_net_profit) > (
        select 0.9 * avg(ss_net_profit)
        from store_sales
        where ss_store_sk = 4 and ss_addr_sk is null
    )
),
ranked as (
    select
        item_sk,
        rank() over (order by profit) as from_worst,
        rank() over (order by profit desc) as from_best
    from profits
)
select a.from_worst as position, best.i_product_name as best_item, worst.i_product_name as worst_item
from ranked a
join ranked b on b.from_best = a.from_worst
join item best on best.i_item_sk = a.item_sk
join item worst on worst.i_item_sk = b.item_sk
where a.from_worst <= 10
order by a.from_worst
limit 100;
