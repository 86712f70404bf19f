-- Asks which customers bought away from home in the first two days of a month, and what the ticket and its taxes came to.
-- Shuffles the sales that are left by ticket, customer and address, then the tickets by customer to join it.
with tickets as (
    select
        ss.ss_ticket_number as ticket_number,
        ss.ss_customer_sk as customer_sk,
        bought.ca_city as bought_city,
        sum(ss.ss_ext_sales_price) as sales_price,
        sum(ss.ss_ext_list_price) as list_price,
        sum(ss.ss_ext_tax) as tax
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    join store s on s.s_store_sk = ss.ss_store_sk
    join household_demographics hd on hd.hd_demo_sk = ss.ss_hdemo_sk
    join customer_address bought on bought.ca_address_sk = ss.ss_addr_sk
    where (hd.hd_dep_count = 4 or hd.hd_vehicle_count = 3)
        and d.d_dom between 1 and 2
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
    t.sales_price,
    t.tax,
    t.list_price
from tickets t
join customer c on c.c_customer_sk = t.customer_sk
join customer_address home
    on home.ca_address_sk = c.c_current_addr_sk
    and home.ca_city <> t.bought_city
order by c.c_last_name nulls first, t.ticket_number
limit 100;
