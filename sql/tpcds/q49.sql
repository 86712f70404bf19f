-- Asks for the items of each channel with the worst ratios of returns, by units or by money, in December 2001.
-- Shuffles each channel's sales with its returns by order and item, and the rest by item; the ratios are ranked per channel.
with items as (
    select
        'web' as channel,
        s.ws_item_sk as item_sk,
        sum(coalesce(r.wr_return_quantity, 0)) as returned_units,
        sum(coalesce(s.ws_quantity, 0)) as sold_units,
        sum(coalesce(r.wr_return_amt, 0)) as returned_amount,
        sum(coalesce(s.ws_net_paid, 0)) as sold_amount
    from web_sales s
    left join web_returns r
        on r.wr_order_number = s.ws_order_number
        and r.wr_item_sk = s.ws_item_sk
    join date_dim d on d.d_date_sk = s.ws_sold_date_sk and d.d_year = 2001 and d.d_moy = 12
    where r.wr_return_amt > 10000
        and s.ws_net_profit > 1
        and s.ws_net_paid > 0
        and s.ws_quantity > 0
    group by s.ws_item_sk
    union all
    select
        'catalog' as channel,
        s.cs_item_sk as item_sk,
        sum(coalesce(r.cr_return_quantity, 0)) as returned_units,
        sum(coalesce(s.cs_quantity, 0)) as sold_units,
        sum(coalesce(r.cr_return_amount, 0)) as returned_amount,
        sum(coalesce(s.cs_net_paid, 0)) as sold_amount
    from catalog_sales s
    left join catalog_returns r
        on r.cr_order_number = s.cs_order_number
        and r.cr_item_sk = s.cs_item_sk
    join date_dim d on d.d_date_sk = s.cs_sold_date_sk and d.d_year = 2001 and d.d_moy = 12
    where r.cr_return_amount > 10000
        and s.cs_net_profit > 1
        and s.cs_net_paid > 0
        and s.cs_quantity > 0
    group by s.cs_item_sk
    union all
    select
        'store' as channel,
        s.ss_item_sk as item_sk,
        sum(coalesce(r.sr_return_quantity, 0)) as returned_units,
        sum(coalesce(s.ss_quantity, 0)) as sold_units,
        sum(coalesce(r.sr_return_amt, 0)) as returned_amount,
        sum(coalesce(s.ss_net_paid, 0)) as sold_amount
    from store_sales s
    left join store_returns r
        on r.sr_ticket_number = s.ss_ticket_number
        and r.sr_item_sk = s.ss_item_sk
    join date_dim d on d.d_date_sk = s.ss_sold_date_sk and d.d_year = 2001 and d.d_moy = 12
    where r.sr_return_amt > 10000
        and s.ss_net_profit > 1
        and s.ss_net_paid > 0
        and s.ss_quantity > 0
    group by s.ss_item_sk
),
ratios as (
    select
        channel,
        item_sk,
        cast(returned_units as double) / sold_units as return_ratio,
        cast(returned_amount as double) / cast(sold_amount as double) as amount_ratio
    from items
),
ranked as (
    select
        channel,
        item_sk,
        return_ratio,
        rank() over (partition by channel order by return_ratio) as return_rank,
        rank() over (partition by channel order by amount_ratio) as amount_rank
    from ratios
)
select channel, item_sk, return_ratio, return_rank, amount_rank
from ranked
where return_rank <= 10 or amount_rank <= 10
order by channel, return_rank, amount_rank, item_sk
limit 100;
