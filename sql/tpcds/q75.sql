-- Asks which kinds of books sold less than nine tenths as many in 2002 as in 2001 over all channels, returns taken off.
-- Shuffles each channel's sales with its returns by order and item, then all net sales to drop doubles, and once more by kind.
with net_sales as (
    select
        d.d_year as sale_year,
        i.i_brand_id as brand_id,
        i.i_class_id as class_id,
        i.i_category_id as category_id,
        i.i_manufact_id as manufact_id,
        cs.cs_quantity - coalesce(cr.cr_return_quantity, 0) as units,
        cs.cs_ext_sales_price - coalesce(cr.cr_return_amount, 0.0) as amount
    from catalog_sales cs
    join item i on i.i_item_sk = cs.cs_item_sk and i.i_category = 'Books'
    join date_dim d on d.d_date_sk = cs.cs_sold_date_sk and d.d_year in (2001, 2002)
    left join catalog_returns cr
        on cr.cr_order_number = cs.cs_order_number
        and cr.cr_item_sk = cs.cs_item_sk
    union
    select
        d.d_year,
        i.i_brand_id,
        i.i_class_id,
        i.i_category_id,
        i.i_manufact_id,
        ss.ss_quantity - coalesce(sr.sr_return_quantity, 0),
        ss.ss_ext_sales_price - coalesce(sr.sr_return_amt, 0.0)
    from store_sales ss
    join item i on i.i_item_sk = ss.ss_item_sk and i.i_category = 'Books'
    join date_dim d on d.d_date_sk = ss.ss_sold_date_sk and d.d_year in (2001, 2002)
    left join store_returns sr
        on sr.sr_ticket_number = ss.ss_ticket_number
        and sr.sr_item_sk = ss.ss_item_sk
    union
    select
        d.d_year,
        i.i_brand_id,
        i.i_class_id,
        i.i_category_id,
        i.i_manufact_id,
        ws.ws_quantity - coalesce(wr.wr_return_quantity, 0),
        ws.ws_ext_sales_price - coalesce(wr.wr_return_amt, 0.0)
    from web_sales ws
    join item i on i.i_item_sk = ws.ws_item_sk and i.i_category = 'Books'
    join date_dim d on d.d_date_sk = ws.ws_sold_date_sk and d.d_year in (2001, 2002)
    left join web_returns wr
        on wr.wr_order_number = ws.ws_order_number
        and wr.wr_item_sk = ws.ws_item_sk
),
yearly as (
    select
        sale_year,
        brand_id,
        class_id,
        category_id,
        manufact_id,
        sum(units) as units,
        sum(amount) as amount
    from net_sales
    group by sale_year, brand_id, class_id, category_id, manufact_id
)
select
    before.sale_year as previous_year,
    now.sale_year as current_year,
    now.brand_id,
    now.class_id,
    now.category_id,
    now.manufact_id,
    before.units as previous_units,
    now.units as current_units,
    now.units - before.units as units_difference,
    now.amount - before.amount as amount_difference
from yearly now
join yearly before
    on before.brand_id = now.brand_id
    and before.class_id = now.class_id
    and before.category_id = now.category_id
    and before.manufact_id = now.manufact_id
where now.sale_year = 2002
    and before.sale_year = 2001
    and cast(now.units as decimal(17, 2)) / cast(before.units as decimal(17, 2)) < 0.9
order by units_difference, amount_difference
limit 100;
