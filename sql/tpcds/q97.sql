-- Asks how many customer and item pairs bought within one year only in stores, only by catalog, or through both.
-- Shuffles both channels' pairs to make them distinct, then joins them in full by customer and item.
with store_pairs as (
    select ss.ss_customer_sk as customer_sk, ss.ss_item_sk as item_sk
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    where d.d_month_seq between 1200 and 1211
    group by ss.ss_customer_sk, ss.ss_item_sk
),
catalog_pairs as (
    select cs.cs_bill_customer_sk as customer_sk, cs.cs_item_sk as item_sk
    from catalog_sales cs
    join date_dim d on d.d_date_sk = cs.cs_sold_date_sk
    where d.d_month_seq between 1200 and 1211
    group by cs.cs_bill_customer_sk, cs.cs_item_sk
)
select
    sum(case when s.customer_sk is not null and c.customer_sk is null then 1 else 0 end)
        as store_only,
    sum(case when s.customer_sk is null and c.customer_sk is not null then 1 else 0 end)
        as catalog_only,
    sum(case when s.customer_sk is not null and c.customer_sk is not null then 1 else 0 end)
        as both_channels
from store_pairs s
full outer join catalog_pairs c
    on c.customer_sk = s.customer_sk
    and c.item_sk = s.item_sk
limit 100;
