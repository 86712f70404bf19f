-- Asks which items bring a store at most a tenth of what its items bring on average in a year.
-- Shuffles store_sales by store and item for the sums, then the sums by store for the averages and to join them.
with revenues as (
    select
        ss.ss_store_sk as store_sk,
        ss.ss_item_sk as item_sk,
        sum(ss.ss_sales_price) as revenue
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_month_seq between 1176 and 1187
    group by ss.ss_store_sk, ss.ss_item_sk
),
typical as (
    select store_sk, 0.1 * avg(revenue) as low_revenue
    from revenues
    group by store_sk
)
select
    s.s_store_name,
    i.i_item_desc,
    r.revenue,
    i.i_current_price,
    i.i_wholesale_cost,
    i.i_brand
from revenues r
join typical t on t.store_sk = r.store_sk and r.revenue <= t.low_revenue
join store s on s.s_store_sk = r.store_sk
join item i on i.i_item_sk = r.item_sk
order by
    s.s_store_name nulls first,
    i.i_item_desc nulls first,
    r.revenue nulls first,
    i.i_current_price nulls first,
    i.i_wholesale_cost nulls first,
    i.i_brand nulls first
limit 100;
