-- Asks what share of the web sales of its class each item of three categories had in thirty days of 1999.
-- Shuffles the sales by item for the sums, then the sums by class for the window that adds them up.
with items as (
    select
        i.i_item_id as item_id,
        i.i_item_desc as item_desc,
        i.i_category as category,
        i.i_class as class,
        i.i_current_price as price,
        sum(s.ws_ext_sales_price) as revenue
    from web_sales s
    join item i on i.i_item_sk = s.ws_item_sk
    join date_dim d on d.d_date_sk = s.ws_sold_date_sk
    where i.i_category in ('Sports', 'Books', 'Home')
        and d.d_date between date '1999-02-22' and date '1999-02-22' + interval '30' day
    group by i.i_item_id, i.i_item_desc, i.i_category, i.i_class, i.i_current_price
)
select
    item_id,
    item_desc,
    category,
    class,
    price,
    revenue,
    cast(revenue as double) * 100 / cast(sum(revenue) over (partition by class) as double) as share
from items
order by
    category nulls first,
    class nulls first,
    item_id nulls first,
    item_desc nulls first,
    share nulls first
limit 100;
