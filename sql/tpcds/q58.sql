-- Asks which items brought about the same money in stores, by catalog and by web in the week of 3 January 2000.
-- Shuffles the week's sales of each channel by item id, for the sums and for the joins of the three.
with week as (
    select d.d_date_sk as date_sk
    from date_dim d
    join date_dim day on day.d_week_seq = d.d_week_seq and day.d_date = date '2000-01-03'
),
store as (
    select i.i_item_id as item_id, sum(ss.ss_ext_sales_price) as revenue
    from store_sales ss
    join item i on i.i_item_sk = ss.ss_item_sk
    join week w on w.date_sk = ss.ss_sold_date_sk
    group by i.i_item_id
),
catalog as (
    select i.i_item_id as item_id, sum(cs.cs_ext_sales_price) as revenue
    from catalog_sales cs
    join item i on i.i_item_sk = cs.cs_item_sk
    join week w on w.date_sk = cs.cs_sold_date_sk
    group by i.i_item_id
),
web as (
    select i.i_item_id as item_id, sum(ws.ws_ext_sales_price) as revenue
    from web_sales ws
    join item i on i.i_item_sk = ws.ws_item_sk
    join week w on w.date_sk = ws.ws_sold_date_sk
    group by i.i_item_id
),
sales as (
    select
        s.item_id,
        cast(s.revenue as double) as store,
        cast(c.revenue as double) as catalog,
        cast(w.revenue as double) as web,
        (cast(s.revenue as double) + cast(c.revenue as double) + cast(w.revenue as double)) / 3
            as average
    from store s
    join catalog c on c.item_id = s.item_id
    join web w on w.item_id = s.item_id
)
select
    item_id,
    store,
    store / average * 100 as store_share,
    catalog,
    catalog / average * 100 as catalog_share,
    web,
    web / average * 100 as web_share,
    average
from sales
where store between 0.9 * catalog and 1.1 * catalog
    and store between 0.9 * web and 1.1 * web
    and catalog between 0.9 * store and 1.1 * store
    and catalog between 0.9 * web and 1.1 * web
    and web between 0.9 * store and 1.1 * store
    and web between 0.9 * catalog and 1.1 * catalog
order by item_id nulls first, store nulls first
limit 100;
