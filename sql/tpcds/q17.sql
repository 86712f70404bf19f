-- Asks how evenly items bought in stores in early 2001, returned, and bought again by catalog were bought, returned and bought again.
-- Shuffles store_sales, store_returns and catalog_sales by customer, item and ticket to join them.
select
    i.i_item_id,
    i.i_item_desc,
    s.s_state,
    count(ss.ss_quantity) as sold_count,
    avg(ss.ss_quantity) as sold_average,
    stddev_samp(ss.ss_quantity) as sold_deviation,
    stddev_samp(ss.ss_quantity) / avg(ss.ss_quantity) as sold_variation,
    count(sr.sr_return_quantity) as returned_count,
    avg(sr.sr_return_quantity) as returned_average,
    stddev_samp(sr.sr_return_quantity) as returned_deviation,
    stddev_samp(sr.sr_return_quantity) / avg(sr.sr_return_quantity) as returned_variation,
    count(cs.cs_quantity) as again_count,
    avg(cs.cs_quantity) as again_average,
    stddev_samp(cs.cs_quantity) as again_deviation,
    stddev_samp(cs.cs_quantity) / avg(cs.cs_quantity) as again_variation
from store_sales ss
join store_returns sr
    on sr.sr_customer_sk = ss.ss_customer_sk
    and sr.sr_item_sk = ss.ss_item_sk
    and sr.sr_ticket_number = ss.ss_ticket_number
join catalog_sales cs
    on cs.cs_bill_customer_sk = sr.sr_customer_sk
    and cs.cs_item_sk = sr.sr_item_sk
join date_dim sold on sold.d_date_sk = ss.ss_sold_date_sk
join date_dim returned on returned.d_date_sk = sr.sr_returned_date_sk
join date_dim again on again.d_date_sk = cs.cs_sold_date_sk
join store s on s.s_store_sk = ss.ss_store_sk
join item i on i.i_item_sk = ss.ss_item_sk
where sold.d_quarter_name = '2001Q1'
    and returned.d_quarter_name in ('2001Q1', '2001Q2', '2001Q3')
    and again.d_quarter_name in ('2001Q1', '2001Q2', '2001Q3')
group by i.i_item_id, i.i_item_desc, s.s_state
order by i.i_item_id nulls first, i.i_item_desc nulls first, s.s_state nulls first
limit 100;
