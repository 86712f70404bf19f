-- Asks what certain customers of large stores got off and the store earned, ticket by ticket, on Mondays.
-- Shuffles the sales that are left by ticket, customer and address, then the tickets by customer to join it.
with tickets as (
    select
        ss.ss_ticket_number as ticket_number,
        ss.ss_customer_sk as customer_sk,
        s.s_city as city,
        sum(ss.ss_coupon_amt) as coupons,
        sum(ss.ss_net_profit) as profit
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    join store s on s.s_store_sk = ss.ss_store_sk
    join household_demographics hd on hd.hd_demo_sk = ss.ss_hdemo_sk
    where (hd.hd_dep_count = 6 or hd.hd_vehicle_count > 2)
        and d.d_dow = 1
        and d.d_year in (1999, 2000, 2001)
        and s.s_number_employees between 200 and 295
    group by ss.ss_ticket_number, ss.ss_customer_sk, ss.ss_addr_sk, s.s_city
)
select
    c.c_last_name,
    c.c_first_name,
    substr(t.city, 1, 30) as city,
    t.ticket_number,
    t.coupons,
    t.profit
from tickets t
join customer c on c.c_customer_sk = t.customer_sk
order by
    c.c_last_name nulls first,
    c.c_first_name nulls first,
    city nulls first,
    t.profit nulls first,
    t.ticket_number
limit 100;
