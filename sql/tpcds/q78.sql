-- Asks how store purchases kept in 2000 compare with what the same customers bought of the same items by web or catalog.
-- Shuffles all three sales tables with their returns to find unreturned sales, then groups and joins by customer and item.
with web as (
    select
        d.d_year as sale_year,
        ws.ws_item_sk as item_sk,
        ws.ws_bill_customer_sk as customer_sk,
        sum(ws.ws_quantity) as units,
        sum(ws.ws_wholesale_cost) as wholesale,
        sum(ws.ws_sales_price) as price
    from web_sales ws
    left join web_returns wr
        on wr.wr_order_number = ws.ws_order_number
        and wr.wr_item_sk = ws.ws_item_sk
    join date_dim d on d.d_date_sk = ws.ws_sold_date_sk
    where wr.wr_order_number is null
    group by d.d_year, ws.ws_item_sk, ws.ws_bill_customer_sk
),
catalog as (
    select
        d.d_year as sale_year,
        cs.cs_item_sk as item_sk,
        cs.cs_bill_customer_sk as customer_sk,
        sum(cs.cs_quantity) as units,
        sum(cs.cs_wholesale_cost) as wholesale,
        sum(cs.cs_sales_price) as price
    from catalog_sales cs
    left join catalog_returns cr
        on cr.cr_order_number = cs.cs_order_number
        and cr.cr_item_sk = cs.cs_item_sk
    join date_dim d on d.d_date_sk = cs.cs_sold_date_sk
    where cr.cr_order_number is null
    group by d.d_year, cs.cs_item_sk, cs.cs_bill_customer_sk
),
store_kept as (
    select
        d.d_year as sale_year,
        ss.ss_item_sk as item_sk,
        ss.ss_customer_sk as customer_sk,
        sum(ss.ss_quantity) as units,
        sum(ss.ss_wholesale_cost) as wholesale,
        sum(ss.ss_sales_price) as price
    from store_sales ss
    left join store_returns sr
        on sr.sr_ticket_number = ss.ss_ticket_number
        and sr.sr_item_sk = ss.ss_item_sk
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    where sr.sr_ticket_number is null
    group by d.d_year, ss.ss_item_sk, ss.ss_customer_sk
)
select
    s.sale_year,
    s.item_sk,
    s.customer_sk,
    round(cast(s.units as double) / (coalesce(w.units, 0) + coalesce(c.units, 0)), 2) as ratio,
    s.units as store_units,
    s.wholesale as store_wholesale,
    s.price as store_price,
    coalesce(w.units, 0) + coalesce(c.units, 0) as other_units,
    coalesce(w.wholesale, 0) + coalesce(c.wholesale, 0) as other_wholesale,
    coalesce(w.price, 0) + coalesce(c.price, 0) as other_price
from store_kept s
left join web w
    on w.sale_year = s.sale_year
    and w.item_sk = s.item_sk
    and w.customer_sk = s.customer_sk
left join catalog c
    on c.sale_year = s.sale_year
    and c.item_sk = s.item_sk
    and c.customer_sk = s.customer_sk
where s.sale_year = 2000
    and (coalesce(w.units, 0) > 0 or coalesce(c.units, 0) > 0)
order by
    s.sale_year,
    s.item_sk,
    s.customer_sk,
    store_units desc,
    store_wholesale desc,
    store_price desc,
    other_units,
    other_wholesale,
    other_price,
    ratio
limit 100;
