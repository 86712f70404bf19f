-- Asks in which states at least ten purchases of January 2001 were of items that cost 1.2 times the average of their category.
-- Shuffles the items by category for the averages, and the purchases by state.
with category_price as (
    select i_category as category, avg(i_current_price) as average
    from item
    group by i_category
),
one_month as (
    select distinct d_month_seq as month_seq
    from date_dim
    where d_year = 2001 and d_moy = 1
)
select ca.ca_state, count(*) as purchases
from store_sales ss
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
join one_month m on m.month_seq = d.d_month_seq
join item i on i.i_item_sk = ss.ss_item_sk
join category_price p
    on p.category = i.i_category
    and i.i_current_price > 1.2 * p.average
join customer c on c.c_customer_sk = ss.ss_customer_sk
join customer_address ca on ca.ca_address_sk = c.c_current_addr_sk
group by ca.ca_state
having count(*) >= 10
order by purchases, ca.ca_state nulls first
limit 100;
