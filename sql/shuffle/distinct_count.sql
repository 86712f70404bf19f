-- Asks how many different customers each item of a store has, and how many items have that many.
-- Shuffles the values themselves, since a number of distinct values cannot be added up from parts.
with items as (
    select
        ss_store_sk,
        ss_item_sk,
        count(distinct ss_customer_sk) as customers,
        sum(ss_quantity) as units,
        max(ss_net_profit) as best_profit
    from store_sales
    group by ss_store_sk, ss_item_sk
)
select
    ss_store_sk,
    customers,
    count(*) as items,
    sum(units) as units,
    max(best_profit) as best_profit
from items
group by ss_store_sk, customers
order by ss_store_sk, customers;
