-- Asks in which counties web sales grew faster than store sales in both the second and the third quarter of 2000.
-- Shuffles both sales tables by address to join it, and by county and quarter; then the sums by county.
with quarters as (
    select 'store' as channel, ca.ca_county as county, d.d_qoy as quarter,
        sum(ss.ss_ext_sales_price) as sales
    from store_sales ss
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year = 2000
    join customer_address ca on ca.ca_address_sk = ss.ss_addr_sk
    group by ca.ca_county, d.d_qoy
    union all
    select 'web', ca.ca_county, d.d_qoy, sum(ws.ws_ext_sales_price)
    from web_sales ws
    join date_dim d on d.d_date_sk = ws.ws_sold_date_sk and d.d_year = 2000
    join customer_address ca on ca.ca_address_sk = ws.ws_bill_addr_sk
    group by ca.ca_county, d.d_qoy
),
growth as (
    select
        before.channel,
        before.county,
        before.quarter,
        cast(after.sales as double) / cast(before.sales as double) as growth
    from quarters before
    join quarters after
        on after.channel = before.channel
        and after.county = before.county
        and after.quarter = before.quarter + 1
    where before.sales > 0
)
select
    w1.county,
    2000 as sale_year,
    w1.growth as web_second,
    s1.growth as store_second,
    w2.growth as web_third,
    s2.growth as store_third
from growth w1
join growth s1 on s1.county = w1.county and s1.channel = 'store' and s1.quarter = 1
join growth w2 on w2.county = w1.county and w2.channel = 'web' and w2.quarter = 2
join growth s2 on s2.county = w1.county and s2.channel = 'store' and s2.quarter = 2
where w1.channel = 'web'
    and w1.quarter = 1
    and w1.growth > s1.growth
    and w2.growth > s2.growth
order by w1.county;
