-- Asks for sales, returns and profit of every store, catalog page and web site in two weeks of 2000, with subtotals.
-- Shuffles sales and returns of each channel by outlet; web returns first meet their sales by item and order.
with window_days as (
    select d_date_sk as date_sk
    from date_dim
    where d_date between date '2000-08-23' and date '2000-08-23' + interval '14' day
),
store_moves as (
    select
        ss_store_sk as outlet_sk,
        ss_sold_date_sk as date_sk,
        ss_ext_sales_price as sales,
        ss_net_profit as profit,
        cast(0 as decimal(7, 2)) as returned,
        cast(0 as decimal(7, 2)) as loss
    from store_sales
    union all
    select
        sr_store_sk,
        sr_returned_date_sk,
        cast(0 as decimal(7, 2)),
        cast(0 as decimal(7, 2)),
        sr_return_amt,
        sr_net_loss
    from store_returns
),
catalog_moves as (
    select
        cs_catalog_page_sk as outlet_sk,
        cs_sold_date_sk as date_sk,
        cs_ext_sales_price as sales,
        cs_net_profit as profit,
        cast(0 as decimal(7, 2)) as returned,
        cast(0 as decimal(7, 2)) as loss
    from catalog_sales
    union all
    select
        cr_catalog_page_sk,
        cr_returned_date_sk,
        cast(0 as decimal(7, 2)),
        cast(0 as decimal(7, 2)),
        cr_return_amount,
        cr_net_loss
    from catalog_returns
),
web_moves as (
    select
        ws_web_site_sk as outlet_sk,
        ws_sold_date_sk as date_sk,
        ws_ext_sales_price as sales,
        ws_net_profit as profit,
        cast(0 as decimal(7, 2)) as returned,
        cast(0 as decimal(7, 2)) as loss
    from web_sales
    union all
    select
        ws.ws_web_site_sk,
        wr.wr_returned_date_sk,
        cast(0 as decimal(7, 2)),
        cast(0 as decimal(7, 2)),
        wr.wr_return_amt,
        wr.wr_net_loss
    from web_returns wr
    left join web_sales ws
        on ws.ws_item_sk = wr.wr_item_sk
        and ws.ws_order_number = wr.wr_order_number
),
outlets as (
    select
        'store channel' as channel,
        'store' || s.s_store_id as outlet,
        sum(m.sales) as sales,
        sum(m.returned) as returned,
        sum(m.profit) - sum(m.loss) as profit
    from store_moves m
    join window_days w on w.date_sk = m.date_sk
    join store s on s.s_store_sk = m.outlet_sk
    group by s.s_store_id
    union all
    select
        'catalog channel',
        'catalog_page' || p.cp_catalog_page_id,
        sum(m.sales),
        sum(m.returned),
        sum(m.profit) - sum(m.loss)
    from catalog_moves m
    join window_days w on w.date_sk = m.date_sk
    join catalog_page p on p.cp_catalog_page_sk = m.outlet_sk
    group by p.cp_catalog_page_id
    union all
    select
        'web channel',
        'web_site' || site.web_site_id,
        sum(m.sales),
        sum(m.returned),
        sum(m.profit) - sum(m.loss)
    from web_moves m
    join window_days w on w.date_sk = m.date_sk
    join web_site site on site.web_site_sk = m.outlet_sk
    group by site.web_site_id
)
select
    channel,
    outlet,
    sum(sales) as sales,
    sum(returned) as returned,
    sum(profit) as profit
from outlets
group by rollup (channel, outlet)
order by channel nulls first, outlet nulls first
limit 100;
