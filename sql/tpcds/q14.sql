-- Asks what items whose brand, class and category sell in all channels sold in November 2001 where above the average sale, with subtotals.
-- Shuffles all sales of three years by brand, class and category to intersect the channels, then those of the month by item.
with three_years as (
    select d_date_sk as date_sk from date_dim where d_year between 1999 and 2001
),
kinds as (
    select i.i_brand_id as brand_id, i.i_class_id as class_id, i.i_category_id as category_id
    from store_sales ss
    join three_years y on y.date_sk = ss.ss_sold_date_sk
    join item i on i.i_item_sk = ss.ss_item_sk
    intersect
    select i.i_brand_id, i.i_class_id, i.i_category_id
    from catalog_sales cs
    join three_years y on y.date_sk = cs.cs_sold_date_sk
    join item i on i.i_item_sk = cs.cs_item_sk
    intersect
    select i.i_brand_id, i.i_class_id, i.i_category_id
    from web_sales ws
    join three_years y on y.date_sk = ws.ws_sold_date_sk
    join item i on i.i_item_sk = ws.ws_item_sk
),
cross_items as (
    select i.i_item_sk as item_sk
    from item i
    join kinds k
        on k.brand_id = i.i_brand_id
        and k.class_id = i.i_class_id
        and k.category_id = i.i_category_id
),
sales as (
    select
        'store' as channel,
        ss_item_sk as item_sk,
        ss_sold_date_sk as date_sk,
        ss_quantity * ss_list_price as amount
    from store_sales
    union all
    select 'catalog', cs_item_sk, cs_sold_date_sk, cs_quantity * cs_list_price
    from catalog_sales
    union all
    select 'web', ws_item_sk, ws_sold_date_sk, ws_quantity * ws_list_price
    from web_sales
),
average_sale as (
    select avg(s.amount) as amount
    from sales s
    join three_years y on y.date_sk = s.date_sk
),
month_sales as (
    select
        s.channel,
        i.i_brand_id as brand_id,
        i.i_class_id as class_id,
        i.i_category_id as category_id,
        sum(s.amount) as amount,
        count(*) as sales
    from sales s
    join date_dim d on d.d_date_sk = s.date_sk and d.d_year = 2001 and d.d_moy = 11
    join item i on i.i_item_sk = s.item_sk
    where s.item_sk in (select item_sk from cross_items)
    group by s.channel, i.i_brand_id, i.i_class_id, i.i_category_id
)
select
    m.channel,
    m.brand_id,
    m.class_id,
    m.category_id,
    sum(m.amount) as amount,
    sum(m.sales) as sales
from month_sales m
join average_sale a on m.amount > a.amount
group by rollup (m.channel, m.brand_id, m.class_id, m.category_id)
order by
    m.channel nulls first,
    m.brand_id nulls first,
    m.class_id nulls first,
    m.category_id nulls first
limit 100;
