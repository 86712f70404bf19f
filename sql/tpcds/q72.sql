-- Asks which catalog items ordered in 1999 found too little stock in a warehouse in the week of the order, with and without promotion.
-- Shuffles orders and inventory by item: every order meets each weekly count of its item before the weeks are compared.
select
    i.i_item_desc,
    w.w_warehouse_name,
    ordered.d_week_seq,
    sum(case when p.p_promo_sk is null then 1 else 0 end) as without_promotion,
    sum(case when p.p_promo_sk is null then 0 else 1 end) as with_promotion,
    count(*) as shortages
from catalog_sales cs
join inventory inv
    on inv.inv_item_sk = cs.cs_item_sk
    and inv.inv_quantity_on_hand < cs.cs_quantity
join warehouse w on w.w_warehouse_sk = inv.inv_warehouse_sk
join item i on i.i_item_sk = cs.cs_item_sk
join customer_demographics cd on cd.cd_demo_sk = cs.cs_bill_cdemo_sk
join household_demographics hd on hd.hd_demo_sk = cs.cs_bill_hdemo_sk
join date_dim ordered on ordered.d_date_sk = cs.cs_sold_date_sk
join date_dim counted
    on counted.d_date_sk = inv.inv_date_sk
    and counted.d_week_seq = ordered.d_week_seq
join date_dim shipped on shipped.d_date_sk = cs.cs_ship_date_sk
left join promotion p on p.p_promo_sk = cs.cs_promo_sk
left join catalog_returns cr
    on cr.cr_item_sk = cs.cs_item_sk
    and cr.cr_order_number = cs.cs_order_number
where ordered.d_year = 1999
    and shipped.d_date > ordered.d_date + interval '5' day
    and hd.hd_buy_potential = '>10000'
    and cd.cd_marital_status = 'D'
group by i.i_item_desc, w.w_warehouse_name, ordered.d_week_seq
order by
    shortages desc,
    i.i_item_desc nulls first,
    w.w_warehouse_name nulls first,
    ordered.d_week_seq
limit 100;
