-- Asks what web customers of certain zip codes, or buyers of certain items, bought per zip code and city in the spring of 2001.
-- Shuffles web_sales by customer and address to join them, and the result by zip code and city.
with some_items as (
    select distinct i_item_id as item_id
    from item
    where i_item_sk in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
)
select ca.ca_zip, ca.ca_city, sum(ws.ws_sales_price) as sales
from web_sales ws
join customer c on c.c_customer_sk = ws.ws_bill_customer_sk
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk
join item i on i.i_item_sk = ws.ws_item_sk
left join some_items s on s.item_id = i.i_item_id
join date_dim d on d.d_date_sk = ws.ws_sold_date_sk and d.d_qoy = 2 and d.d_year = 2001
where s.item_id is not null
    or substr(ca.ca_zip, 1, 5) in (
        '85669', '86197', '88274', '83405', '86475', '85392', '85460', '80348', '81792'
    )
group by ca.ca_zip, ca.ca_city
order by ca.ca_zip, ca.ca_city
limit 100;
