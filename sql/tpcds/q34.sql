-- Asks which customers with cars and many dependents buys 15 to 20 items on one store ticket in the first or last days of a month.
-- Shuffles the sales that are left by ticket and customer, then the tickets by customer to join it.
with tickets as (
    select
        ss.ss_ticket_number as ticket_number,
        ss.ss_customer_sk as customer_sk,
        count(*) as items
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
    join store s on s.s_store_sk = ss.ss_store_sk
    join household_demographics hd on hd.hd_demo_sk = ss.ss_hdemo_sk
    where (d.d_dom between 1 and 3 or d.d_dom between 25 and 28)
        and d.d_year in (1999, 2000, 2001)
        and hd.hd_buy_potential in ('>10000', 'Unknown')
        and hd.hd_vehicle_count > 0
        and cast(hd.hd_dep_count as double) / hd.hd_vehicle_count > 1.2
        and s.s_county in ('Williamson County')
    group by ss.ss_ticket_number, ss.ss_customer_sk
)
select
    c.c_last_name,
    c.c_first_name,
    c.c_salutation,
    c.c_preferred_cust_flag,
    t.ticket_number,
    t.items
from tickets t
join customer c on c.c_customer_sk = t.customer_sk
where t.items between 15 and 20
order by
    c.c_last_name nulls first,
    c.c_first_name nulls first,
    c.c_salutation nulls first,
    c.c_preferred_cust_flag desc nulls last,
    t.ticket_number;
