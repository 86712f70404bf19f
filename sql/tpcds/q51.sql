-- Asks on which days the running web sales of an item, from the start of a year, were above its running store sales.
-- Shuffles both sales tables by item and day, and by item for the running sums; these are joined in full by item and day.
with web as (
    select
        ws.ws_item_sk as item_sk,
        d.d_date as day,
        sum(sum(ws.ws_sales_price)) over (
            partition by ws.ws_item_sk
            order by d.d_date
            rows between unbounded preceding and current row
        ) as running
    from web_sales ws
    join date_dim d on d.d_date_sk = ws.ws_sold_date_sk and d.d_month_seq between 1200 and 1211
    group by ws.ws_item_sk, d.d_date
),
store as (
    select
        ss.ss_item_sk as item_sk,
        d.d_date as day,
        sum(sum(ss.ss_sales_price)) over (
            partition by ss.ss_item_sk
            order by d.d_date
            rows between unbounded preceding and current row
        ) as running
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_month_seq between 1200 and 1211
    group by ss.ss_item_sk, d.d_date
),
days as (
    select
        coalesce(w.item_sk, s.item_sk) as item_sk,
        coalesce(w.day, s.day) as day,
        w.running as web_running,
        s.running as store_running
    from web w
    full outer join store s on s.item_sk = w.item_sk and s.day = w.day
),
highest as (
    select
        item_sk,
        day,
        web_running,
        store_running,
        max(web_running) over (
            partition by item_sk
            order by day
            rows between unbounded preceding and current row
        ) as web_highest,
        max(store_running) over (
            partition by item_sk
            order by day
            rows between unbounded preceding and current row
        ) as store_highest
    from days
)
select item_sk, day, web_running, store_running, web_highest, store_highest
from highest
where web_highest > store_highest
order by item_sk nulls first, day nulls first
limit 100;
