-- Asks what stores and the catalog earned and lost on items bought in April 2001, returned, and bought again by catalog.
-- Shuffles store_sales, store_returns and catalog_sales by customer, item and ticket to join them.
select
    i.i_item_id,
    i.i_item_desc,
    s.s_store_id,
    s.s_store_name,
    sum(ss.ss_net_profit) as store_profit,
    sum(sr.sr_net_loss) as return_loss,
    sum(cs.cs_net_profit) as catalog_profit
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
where sold.d_moy = 4
    and sold.d_year = 2001
    and returned.d_moy between 4 and 10
    and returned.d_year = 2001
    and again.d_moy between 4 and 10
    and again.d_year = 2001
group by i.i_item_id, i.i_item_desc, s.s_store_id, s.s_store_name
order by i.i_item_id, i.i_item_desc, s.s_store_id, s.s_store_name
limit 100;
