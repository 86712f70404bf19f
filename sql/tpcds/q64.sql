-- Asks which returned items, also refunded through the catalog, sold as often or less in 2000 than in 1999 in the same store.
-- Shuffles store_sales with store_returns, then each wide sale row once per dimension, and twelve grouping keys on top.
with catalog_items as (
    select cs.cs_item_sk as item_sk
    from catalog_sales cs
    join catalog_returns cr
        on cr.cr_item_sk = cs.cs_item_sk
        and cr.cr_order_number = cs.cs_order_number
    group by cs.cs_item_sk
    having sum(cs.cs_ext_list_price)
        > 2 * sum(cr.cr_refunded_cash + cr.cr_reversed_charge + cr.cr_store_credit)
),
returned_sales as (
    select
        i.i_product_name as product_name,
        i.i_item_sk as item_sk,
        s.s_store_name as store_name,
        s.s_zip as store_zip,
        bought.ca_street_number as bought_street_number,
        bought.ca_street_name as bought_street_name,
        bought.ca_city as bought_city,
        bought.ca_zip as bought_zip,
        home.ca_street_number as home_street_number,
        home.ca_street_name as home_street_name,
        home.ca_city as home_city,
        home.ca_zip as home_zip,
        sold.d_year as sale_year,
        count(*) as sales,
        sum(ss.ss_wholesale_cost) as wholesale,
        sum(ss.ss_list_price) as list_price,
        sum(ss.ss_coupon_amt) as coupons
    from store_sales ss
    join store_returns sr
        on sr.sr_item_sk = ss.ss_item_sk
        and sr.sr_ticket_number = ss.ss_ticket_number
    join catalog_items ci on ci.item_sk = ss.ss_item_sk
    join date_dim sold on sold.d_date_sk = ss.ss_sold_date_sk
    join store s on s.s_store_sk = ss.ss_store_sk
    join customer c on c.c_customer_sk = ss.ss_customer_sk
    join customer_demographics then_cd on then_cd.cd_demo_sk = ss.ss_cdemo_sk
    join customer_demographics now_cd on now_cd.cd_demo_sk = c.c_current_cdemo_sk
    join promotion p on p.p_promo_sk = ss.ss_promo_sk
    join household_demographics then_hd on then_hd.hd_demo_sk = ss.ss_hdemo_sk
    join household_demographics now_hd on now_hd.hd_demo_sk = c.c_current_hdemo_sk
    join income_band then_ib on then_ib.ib_income_band_sk = then_hd.hd_income_band_sk
    join income_band now_ib on now_ib.ib_income_band_sk = now_hd.hd_income_band_sk
    join customer_address bought on bought.ca_address_sk = ss.ss_addr_sk
    join customer_address home on home.ca_address_sk = c.c_current_addr_sk
    join date_dim first_sale on first_sale.d_date_sk = c.c_first_sales_date_sk
    join date_dim first_ship on first_ship.d_date_sk = c.c_first_shipto_date_sk
    join item i on i.i_item_sk = ss.ss_item_sk
    where then_cd.cd_marital_status <> now_cd.cd_marital_status
        and i.i_color in ('purple', 'burlywood', 'indian', 'spring', 'floral', 'medium')
        and i.i_current_price between 65 and 74
    group by
        i.i_product_name,
        i.i_item_sk,
        s.s_store_name,
        s.s_zip,
        bought.ca_street_number,
        bought.ca_street_name,
        bought.ca_city,
        bought.ca_zip,
        home.ca_street_number,
        home.ca_street_name,
        home.ca_city,
        home.ca_zip,
        sold.d_year,
        first_sale.d_year,
        first_ship.d_year
)
select
    a.product_name,
    a.store_name,
    a.store_zip,
    a.bought_street_number,
    a.bought_street_name,
    a.bought_city,
    a.bought_zip,
    a.home_street_number,
    a.home_street_name,
    a.home_city,
    a.home_zip,
    a.sale_year as first_year,
    a.sales as first_sales,
    a.wholesale as first_wholesale,
    a.list_price as first_list_price,
    a.coupons as first_coupons,
    b.wholesale as next_wholesale,
    b.list_price as next_list_price,
    b.coupons as next_coupons,
    b.sale_year as next_year,
    b.sales as next_sales
from returned_sales a
join returned_sales b
    on b.item_sk = a.item_sk
    and b.store_name = a.store_name
    and b.store_zip = a.store_zip
where a.sale_year = 1999
    and b.sale_year = 2000
    and b.sales <= a.sales
order by a.product_name, a.store_name, b.sales, a.wholesale, b.wholesale;
