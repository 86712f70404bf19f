-- Asks which customers bought away from home on weekends, what they got off and what the store earned.
-- Shuffles the weekend sales by ticket, customer and address, then the tickets by customer to join it.
with tickets as (
    select
        ss.ss_ticket_number as ticket_number,
        ss.ss_customer_sk as customer_sk,
        bought.ca_city as bought_city,
        sum(ss.ss_coupon_amt) as coupons,
        sum(ss.ss_net_profit) as profit
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    join store s on s.s_store_sk = ss.ss_store_sk
    join household_demographics hd on hd.hd_demo_sk = ss.ss_hdemo_sk
    join customer_address bought on bought.ca_address_sk = ss.ss_addr_sk
    where (hd.hd_dep_count = 4 or hd.hd_vehicle_count = 3)
        and d.d_dow in (6, 0)
        and d.d_year in (1999, 2000, 2001)
        and s.s_city in ('Fairview', 'Midway')
    group by ss.ss_ticket_number, ss.ss_customer_sk, ss.ss_addr_sk, bought.ca_city
)
select
    c.c_last_name,
    c.c_first_name,
    home.ca_city,
    t.bought_city,
    t.ticket_number,
    t.coupons,
    t.profit
from tickets t
join customer c on c.c_customer_sk = t.customer_sk
join customer_address home
    on home.ca_address_sk = c.c_current_addr_sk
    and home.ca_city <> t.bought_city
order by
    c.c_last_name nulls first,
    c.c_first_name nulls first,
    home.ca_city nulls first,
    t.bought_city nulls first,
    t.ticket_number
limit 100;
