-- Asks how many sales of each channel lack a certain key, and what they came to, by year, quarter and category.
-- Shuffles the joined sales without the key by channel, period and category.
with sales as (
    select
        'store' as channel,
        'ss_store_sk' as missing,
        ss_item_sk as item_sk,
        ss_sold_date_sk as date_sk,
        ss_ext_sales_price as price
    from store_sales
    where ss_store_sk is null
    union all
    select 'web', 'ws_ship_customer_sk', ws_item_sk, ws_sold_date_sk, ws_ext_sales_price
    from web_sales
    where ws_ship_customer_sk is null
    union all
    select 'catalog', 'cs_ship_addr_sk', cs_item_sk, cs_sold_date_sk, cs_ext_sales_price
    from catalog_sales
    where cs_ship_addr_sk is null
)
select
    s.channel,
    s.missing,
    d.d_year,
    d.d_qoy,
    i.i_category,
    count(*) as sales,
    sum(s.price) as amount
from sales s
join date_dim d on d.d_date_sk = s.date_sk
join item i on i.i_item_sk = s.item_sk
group by s.channel, s.missing, d.d_year, d.d_qoy, i.i_category
order by
    s.channel nulls first,
    s.missing nulls first,
    d.d_year nulls first,
    d.d_qoy nulls first,
    i.i_category nulls first
limit 100;
