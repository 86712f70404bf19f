-- Asks for sales, returns and profit of items over 50 without television promotion by outlet in a month of 2000, with subtotals.
-- Shuffles each channel's sales with its returns by item and order, and the rest by outlet.
with days as (
    select d_date_sk as date_sk
    from date_dim
    where d_date between date '2000-08-23' and date '2000-08-23' + interval '30' day
),
outlets as (
    select
        'store channel' as channel,
        'store' || place.s_store_id as outlet,
        sum(s.ss_ext_sales_price) as sales,
        sum(coalesce(r.sr_return_amt, 0)) as returned,
        sum(s.ss_net_profit - coalesce(r.sr_net_loss, 0)) as profit
    from store_sales s
    left join store_returns r
        on r.sr_item_sk = s.ss_item_sk
        and r.sr_ticket_number = s.ss_ticket_number
    join days d on d.date_sk = s.ss_sold_date_sk
    join store place on place.s_store_sk = s.ss_store_sk
    join item i on i.i_item_sk = s.ss_item_sk and i.i_current_price > 50
    join promotion p on p.p_promo_sk = s.ss_promo_sk and p.p_channel_tv = 'N'
    group by place.s_store_id
    union all
    select
        'catalog channel' as channel,
        'catalog_page' || place.cp_catalog_page_id as outlet,
        sum(s.cs_ext_sales_price) as sales,
        sum(coalesce(r.cr_return_amount, 0)) as returned,
        sum(s.cs_net_profit - coalesce(r.cr_net_loss, 0)) as profit
    from catalog_sales s
    left join catalog_returns r
        on r.cr_item_sk = s.cs_item_sk
        and r.cr_order_number = s.cs_order_number
    join days d on d.date_sk = s.cs_sold_date_sk
    join catalog_page place on place.cp_catalog_page_sk = s.cs_catalog_page_sk
    join item i on i.i_item_sk = s.cs_item_sk and i.i_current_price > 50
    join promotion p on p.p_promo_sk = s.cs_promo_sk and p.p_channel_tv = 'N'
    group by place.cp_catalog_page_id
    union all
    select
        'web channel' as channel,
        'web_site' || place.web_site_id as outlet,
        sum(s.ws_ext_sales_price) as sales,
        sum(coalesce(r.wr_return_amt, 0)) as returned,
        sum(s.ws_net_profit - coalesce(r.wr_net_loss, 0)) as profit
    from web_sales s
    left join web_returns r
        on r.wr_item_sk = s.ws_item_sk
        and r.wr_order_number = s.ws_order_number
    join days d on d.date_sk = s.ws_sold_date_sk
    join web_site place on place.web_site_sk = s.ws_web_site_sk
    join item i on i.i_item_sk = s.ws_item_sk and i.i_current_price > 50
    join promotion p on p.p_promo_sk = s.ws_promo_sk and p.p_channel_tv = 'N'
    group by place.web_site_id
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
