-- Asks for averages of what single male college graduates pay for each item in stores, bought with certain promotions in 2000.
-- Shuffles the purchases that are left after four joins by item id.
select
    i.i_item_id,
    avg(ss.ss_quantity) as quantity,
    avg(ss.ss_list_price) as list_price,
    avg(ss.ss_coupon_amt) as coupon,
    avg(ss.ss_sales_price) as sales_price
from store_sales ss
join customer_demographics cd on cd.cd_demo_sk = ss.ss_cdemo_sk
join date_dim d on d.d_date_sk = ss.ss_sold_date_sk
join item i on i.i_item_sk = ss.ss_item_sk
join promotion p on p.p_promo_sk = ss.ss_promo_sk
where cd.cd_gender = 'M'
    and cd.cd_marital_status = 'S'
    and cd.cd_education_status = 'College'
    and (p.p_channel_email = 'N' or p.p_channel_event = 'N')
    and d.d_year = 2000
group by i.i_item_id
order by i.i_item_id
limit 100;
