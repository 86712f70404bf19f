-- Asks for sales, returns and profit of every store, call center and web page in a month of 2000, with subtotals.
-- Shuffles sales and returns of each channel by outlet, and the sums of both to join them.
with days as (
    select d_date_sk as date_sk
    from date_dim
    where d_date between date '2000-08-23' and date '2000-08-23' + interval '30' day
),
store_sold as (
    select ss.ss_store_sk as outlet, sum(ss.ss_ext_sales_price) as sales,
        sum(ss.ss_net_profit) as profit
    from store_sales ss
    join days d on d.date_sk = ss.ss_sold_date_sk
    join store s on s.s_store_sk = ss.ss_store_sk
    group by ss.ss_store_sk
),
store_returned as (
    select sr.sr_store_sk as outlet, sum(sr.sr_return_amt) as returned,
        sum(sr.sr_net_loss) as loss
    from store_returns sr
    join days d on d.date_sk = sr.sr_returned_date_sk
    join store s on s.s_store_sk = sr.sr_store_sk
    group by sr.sr_store_sk
),
catalog_sold as (
    select cs.cs_call_center_sk as outlet, sum(cs.cs_ext_sales_price) as sales,
        sum(cs.cs_net_profit) as profit
    from catalog_sales cs
    join days d on d.date_sk = cs.cs_sold_date_sk
    group by cs.cs_call_center_sk
),
catalog_returned as (
    select cr.cr_call_center_sk as outlet, sum(cr.cr_return_amount) as returned,
        sum(cr.cr_net_loss) as loss
    from catalog_returns cr
    join days d on d.date_sk = cr.cr_returned_date_sk
    group by cr.cr_call_center_sk
),
web_sold as (
    select ws.ws_web_page_sk as outlet, sum(ws.ws_ext_sales_price) as sales,
        sum(ws.ws_net_profit) as profit
    from web_sales ws
    join days d on d.date_sk = ws.ws_sold_date_sk
    join web_page p on p.wp_web_page_sk = ws.ws_web_page_sk
    group by ws.ws_web_page_sk
),
web_returned as (
    select wr.wr_web_page_sk as outlet, sum(wr.wr_return_amt) as returned,
        sum(wr.wr_net_loss) as loss
    from web_returns wr
    join days d on d.date_sk = wr.wr_returned_date_sk
    join web_page p on p.wp_web_page_sk = wr.wr_web_page_sk
    group by wr.wr_web_page_sk
),
outlets as (
    select
        'store channel' as channel,
        s.outlet,
        s.sales,
        coalesce(r.returned, 0) as returned,
        s.profit - coalesce(r.loss, 0) as profit
    from store_sold s
    left join store_returned r on r.outlet = s.outlet
    union all
    select 'catalog channel', s.outlet, s.sales, r.returned, s.profit - r.loss
    from catalog_sold s
    cross join catalog_returned r
    union all
    select
        'web channel',
        s.outlet,
        s.sales,
        coalesce(r.returned, 0),
        s.profit - coalesce(r.loss, 0)
    from web_sold s
    left join web_returned r on r.outlet = s.outlet
)
select
    channel,
    outlet,
    sum(sales) as sales,
    sum(returned) as returned,
    sum(profit) as profit
from outlets
group by rollup (channel, outlet)
order by channel nulls first, outlet nulls first, returned desc
limit 100;
