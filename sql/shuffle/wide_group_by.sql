-- Asks for each customer, item and day of store sales everything that can be summed up, and how much that is in all.
-- Shuffles every row of store_sales with almost all of its columns by a key that hardly ever repeats.
with baskets as (
    select
        ss_customer_sk,
        ss_item_sk,
        ss_sold_date_sk,
        count(*) as sales,
        min(ss_ticket_number) as first_ticket,
        max(ss_store_sk) as last_store,
        sum(ss_quantity) as units,
        sum(ss_wholesale_cost) as wholesale,
        sum(ss_list_price) as list_price,
        sum(ss_sales_price) as sales_price,
        sum(ss_ext_discount_amt) as discount,
        sum(ss_ext_sales_price) as ext_sales_price,
        sum(ss_ext_wholesale_cost) as ext_wholesale,
        sum(ss_ext_list_price) as ext_list_price,
        sum(ss_ext_tax) as tax,
        sum(ss_coupon_amt) as coupons,
        sum(ss_net_paid) as paid,
        sum(ss_net_profit) as profit
    from store_sales
    group by ss_customer_sk, ss_item_sk, ss_sold_date_sk
)
select
    last_store,
    count(*) as baskets,
    sum(sales) as sales,
    max(first_ticket) as last_first_ticket,
    sum(units) as units,
    sum(wholesale) as wholesale,
    sum(list_price) as list_price,
    sum(sales_price) as sales_price,
    sum(discount) as discount,
    sum(ext_sales_price) as ext_sales_price,
    sum(ext_wholesale) as ext_wholesale,
    sum(ext_list_price) as ext_list_price,
    sum(tax) as tax,
    sum(coupons) as coupons,
    sum(paid) as paid,
    sum(profit) as profit
from baskets
group by last_store
order by last_store;
