-- Asks for the demographics of store customers of three states who bought neither by web nor by catalog in a quarter of 2001.
-- Shuffles the customers of all three channels by customer, and those who are left by five demographic columns.
with quarter as (
    select d_date_sk as date_sk
    from date_dim
    where d_year = 2001 and d_moy between 4 and 6
)
select
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    count(*) as people_1,
    cd.cd_purchase_estimate,
    count(*) as people_2,
    cd.cd_credit_rating,
    count(*) as people_3
from customer c
join customer_address ca
    on ca.ca_address_sk = c.c_current_addr_sk
    and ca.ca_state in ('KY', 'GA', 'NM')
join customer_demographics cd on cd.cd_demo_sk = c.c_current_cdemo_sk
where exists (
        select 1
        from store_sales ss
        join quarter q on q.date_sk = ss.ss_sold_date_sk
        where ss.ss_customer_sk = c.c_customer_sk
    )
    and not exists (
        select 1
        from web_sales ws
        join quarter q on q.date_sk = ws.ws_sold_date_sk
        where ws.ws_bill_customer_sk = c.c_customer_sk
    )
    and not exists (
        select 1
        from catalog_sales cs
        join quarter q on q.date_sk = cs.cs_sold_date_sk
        where cs.cs_ship_customer_sk = c.c_customer_sk
    )
group by
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    cd.cd_purchase_estimate,
    cd.cd_credit_rating
order by
    cd.cd_gender nulls first,
    cd.cd_marital_status nulls first,
    cd.cd_education_status nulls first,
    cd.cd_purchase_estimate nulls first,
    cd.cd_credit_rating nulls first
limit 100;
