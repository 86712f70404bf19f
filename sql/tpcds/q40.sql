-- Asks what mid-priced items earned by catalog, refunds taken off, in the thirty days before and after 11 March 2000, by state.
-- Shuffles catalog_sales with catalog_returns by order and item, then the sales by state and item.
select
    w.w_state,
    i.i_item_id,
    sum(
        case when d.d_date < date '2000-03-11'
            then cs.cs_sales_price - coalesce(cr.cr_refunded_cash, 0) else 0 end
    ) as before,
    sum(
        case when d.d_date >= date '2000-03-11'
            then cs.cs_sales_price - coalesce(cr.cr_refunded_cash, 0) else 0 end
    ) as after
from catalog_sales cs
left join catalog_returns cr
    on cr.cr_order_number = cs.cs_order_number
    and cr.cr_item_sk = cs.cs_item_sk
join warehouse w on w.w_warehouse_sk = cs.cs_warehouse_sk
join item i on i.i_item_sk = cs.cs_item_sk
join date_dim d on d.d_date_sk = cs.cs_sold_date_sk
where i.i_current_price between 0.99 and 1.49
    and d.d_date between date '2000-03-11' - interval '30' day
        and date '2000-03-11' + interval '30' day
group by w.w_state, i.i_item_id
order by w.w_state, i.i_item_id
limit 100;
