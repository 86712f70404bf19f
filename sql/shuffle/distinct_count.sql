-- Asks how many different customers, tickets, items and addresses each store and year had.
-- Shuffles the values themselves, since a number of distinct values cannot be added up from parts.
select
    d.d_year,
    ss.ss_store_sk,
    count(distinct ss.ss_customer_sk) as customers,
    count(distinct ss.ss_ticket_number) as tickets,
    count(distinct ss.ss_item_sk) as items,
    count(distinct ss.ss_addr_sk) as addresses
from store_sales ss
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
group by d.d_year, ss.ss_store_sk
order by d.d_year, ss.ss_store_sk;
