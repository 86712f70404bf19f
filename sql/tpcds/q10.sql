-- Asks for the demographics of store customers of five counties who also bought by web or catalog in early 2002.
-- Shuffles the customers of all three channels by customer, and those who are left by eight demographic columns.
with early_2002 as (
    select d_date_sk as date_sk
    from date_dim
    where d_year = 2002 and d_moy between 1 and 4
),
store_customers as (
    select distinct ss.ss_customer_sk as customer_sk
    from store_sales ss
    join early_2002 e on e.date_sk = ss.ss_sold_date_sk
),
other_customers as (
    select ws.ws_bill_customer_sk as customer_sk
    from web_sales ws
    join early_2002 e on e.date_sk = ws.ws_sold_date_sk
    union
    select cs.cs_ship_customer_sk
    from catalog_sales cs
    join early_2002 e on e.date_sk = cs.cs_sold_date_sk
)
select
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    count(*) as people_1,
    cd.cd_purchase_estimate,
    count(*) as people_2,
    cd.cd_credit_rating,
    count(*) as people_3,
    cd.cd_dep_count,
    count(*) as people_4,
    cd.cd_dep_employed_count,
    count(*) as people_5,
    cd.cd_dep_college_count,
    count(*) as people_6
from customer c
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk
join customer_demographics cd on cd.cd_demo_sk = c.c_current_cdemo_sk
join store_customers s on s.customer_sk = c.c_customer_sk
join other_customers o on o.customer_sk = c.c_customer_sk
where ca.ca_county in (
    'Rush County', 'Toole County', 'Jefferson County', 'Dona Ana County', 'La Porte County'
)
group by
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    cd.cd_purchase_estimate,
    cd.cd_credit_rating,
    cd.cd_dep_count,
    cd.cd_dep_employed_count,
    cd.cd_dep_college_count
order by
    cd.cd_gender,
    cd.cd_marital_status,
    cd.cd_education_status,
    cd.cd_purchase_estimate,
    cd.cd_credit_rating,
    cd.cd_dep_count,
    cd.cd_dep_employed_count,
    cd.cd_dep_college_count
limit 100;
