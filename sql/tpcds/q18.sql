-- Asks for averages over the catalog purchases of some women in 1998 by item and by place, with subtotals of each.
-- Shuffles the joined purchases by customer, then each once per level of the rollup by item and place.
select
    i.i_item_id,
    ca.ca_country,
    ca.ca_state,
    ca.ca_county,
    avg(cast(cs.cs_quantity as decimal(12, 2))) as quantity,
    avg(cast(cs.cs_list_price as decimal(12, 2))) as list_price,
    avg(cast(cs.cs_coupon_amt as decimal(12, 2))) as coupon,
    avg(cast(cs.cs_sales_price as decimal(12, 2))) as sales_price,
    avg(cast(cs.cs_net_profit as decimal(12, 2))) as profit,
    avg(cast(c.c_birth_year as decimal(12, 2))) as birth_year,
    avg(cast(buyer.cd_dep_count as decimal(12, 2))) as dependents
from catalog_sales cs
join customer_demographics buyer on buyer.cd_demo_sk = cs.cs_bill_cdemo_sk
join customer c on c.c_customer_sk = cs.cs_bill_customer_sk
join customer_demographics now on now.cd_demo_sk = c.c_current_cdemo_sk
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk
join date_dim d on d.d_date_sk = cs.cs_sold_date_sk
join item i on i.i_item_sk = cs.cs_item_sk
where buyer.cd_gender = 'F'
    and buyer.cd_education_status = 'Unknown'
    and c.c_birth_month in (1, 6, 8, 9, 12, 2)
    and d.d_year = 1998
    and ca.ca_state in ('MS', 'IN', 'ND', 'OK', 'NM', 'VA')
group by rollup (i.i_item_id, ca.ca_country, ca.ca_state, ca.ca_county)
order by
    ca.ca_country nulls first,
    ca.ca_state nulls first,
    ca.ca_county nulls first,
    i.i_item_id nulls first
limit 100;
