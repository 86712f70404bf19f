-- Asks for customers of one city with a certain income, once for every store return of people like them.
-- Shuffles store_returns and customers by demographics to join them.
select
    c.c_customer_id,
    coalesce(c.c_last_name, '') || ', ' || coalesce(c.c_first_name, '') as customer_name
from customer c
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk and ca.ca_city = 'Edgewood'
join household_demographics hd on hd.hd_demo_sk = c.c_current_hdemo_sk
join income_band ib
    on ib.ib_income_band_sk = hd.hd_income_band_sk
    and ib.ib_lower_bound >= 38128
    and ib.ib_upper_bound <= 38128 + 50000
join customer_demographics cd on cd.cd_demo_sk = c.c_current_cdemo_sk
join store_returns sr on sr.sr_cdemo_sk = cd.cd_demo_sk
order by c.c_customer_id nulls first
limit 100;
