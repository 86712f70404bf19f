-- Asks what customers with returns for one reason spent in the end.
-- Shuffles store_sales with store_returns by item and ticket, and the rest by customer.
with kept as (
    select
        ss.ss_customer_sk as customer_sk,
        (ss.ss_quantity - coalesce(sr.sr_return_quantity, 0)) * ss.ss_sales_price as amount
    from store_sales ss
    join store_returns sr
        on sr.sr_item_sk = ss.ss_item_sk
        and sr.sr_ticket_number = ss.ss_ticket_number
    join reason r on r.r_reason_sk = sr.sr_reason_sk and r.r_reason_desc = 'reason 28'
)
select customer_sk, sum(amount) as amount
from kept
group by customer_sk
order by amount nulls first, customer_sk nulls first
limit 100;
