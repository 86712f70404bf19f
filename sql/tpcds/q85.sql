-- Asks why web purchases of 2000 were returned, with averages, where buyer and returner are alike and price and profit in some range.
-- Shuffles web_sales with web_returns by order and item, then the pairs by demographics to join both people, and by reason.
select
    substr(r.r_reason_desc, 1, 20) as reason,
    avg(ws.ws_quantity) as quantity,
    avg(wr.wr_refunded_cash) as refunded,
    avg(wr.wr_fee) as fee
from web_sales ws
join web_returns wr
    on wr.wr_item_sk = ws.ws_item_sk
    and wr.wr_order_number = ws.ws_order_number
join web_page p on p.wp_web_page_sk = ws.ws_web_page_sk
join date_dim d on d.d_date_sk = ws.ws_sold_date_sk and d.d_year = 2000
join customer_demographics buyer on buyer.cd_demo_sk = wr.wr_refunded_cdemo_sk
join customer_demographics returner
    on returner.cd_demo_sk = wr.wr_returning_cdemo_sk
    and returner.cd_marital_status = buyer.cd_marital_status
    and returner.cd_education_status = buyer.cd_education_status
join customer_address ca
    on ca.ca_address_sk = wr.wr_refunded_addr_sk
    and ca.ca_country = 'United States'
join reason r on r.r_reason_sk = wr.wr_reason_sk
where (
        (
            buyer.cd_marital_status = 'M'
            and buyer.cd_education_status = 'Advanced Degree'
            and ws.ws_sales_price between 100 and 150
        )
        or (
            buyer.cd_marital_status = 'S'
            and buyer.cd_education_status = 'College'
            and ws.ws_sales_price between 50 and 100
        )
        or (
            buyer.cd_marital_status = 'W'
            and buyer.cd_education_status = '2 yr Degree'
            and ws.ws_sales_price between 150 and 200
        )
    )
    and (
        (ca.ca_state in ('IN', 'OH', 'NJ') and ws.ws_net_profit between 100 and 200)
        or (ca.ca_state in ('WI', 'CT', 'KY') and ws.ws_net_profit between 150 and 300)
        or (ca.ca_state in ('LA', 'IA', 'AR') and ws.ws_net_profit between 50 and 250)
    )
group by r.r_reason_desc
order by reason nulls first, quantity nulls first, refunded nulls first, fee nulls first
limit 100;
