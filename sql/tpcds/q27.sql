-- Asks for averages of what single male college graduates pay for each item in Tennessee stores in 2002, by item and state.
-- Shuffles the joined sales, three rows for each by the rollup, by item and state.
select
    i.i_item_id,
    s.s_state,
    grouping(s.s_state) as all_states,
    avg(ss.ss_quantity) as quantity,
    avg(ss.ss_list_price) as list_price,
    avg(ss.ss_coupon_amt) as coupon,
    avg(ss.ss_sales_price) as sales_price
from store_sales ss
join customer_demographics cd on cd.cd_demo_sk = ss.ss_cdemo_sk
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
join store s on s.s_store_sk = ss.ss_store_sk
join item i on i.i_item_sk = ss.ss_item_sk
where cd.cd_gender = 'M'
    and cd.cd_marital_status = 'S'
    and cd.cd_education_status = 'College'
    and d.d_year = 2002
    and s.s_state = 'TN'
group by rollup (i.i_item_id, s.s_state)
order by i.i_item_id nulls first, s.s_state nulls first
limit 100;
