-- Asks what each warehouse shipped by two carriers for web and catalog orders of one time of day, month by month in 2001.
-- Shuffles the joined sales of both channels by the columns that describe a warehouse.
with sales as (
    select
        ws_warehouse_sk as warehouse_sk,
        ws_sold_date_sk as date_sk,
        ws_sold_time_sk as time_sk,
        ws_ship_mode_sk as ship_mode_sk,
        ws_ext_sales_price * ws_quantity as sales,
        ws_net_paid * ws_quantity as net
    from web_sales
    union all
    select
        cs_warehouse_sk,
        cs_sold_date_sk,
        cs_sold_time_sk,
        cs_ship_mode_sk,
        cs_sales_price * cs_quantity,
        cs_net_paid_inc_tax * cs_quantity
    from catalog_sales
),
shipped as (
    select s.warehouse_sk, d.d_year as sale_year, d.d_moy as moy, s.sales, s.net
    from sales s
    join date_dim d on d.d_date_sk = s.date_sk and d.d_year = 2001
    join time_dim t on t.t_time_sk = s.time_sk and t.t_time between 30838 and 30838 + 28800
    join ship_mode m on m.sm_ship_mode_sk = s.ship_mode_sk and m.sm_carrier in ('DHL', 'BARIAN')
)
select
    w.w_warehouse_name,
    w.w_warehouse_sq_ft,
    w.w_city,
    w.w_county,
    w.w_state,
    w.w_country,
    'DHL,BARIAN' as carriers,
    s.sale_year,
    sum(case when s.moy = 1 then s.sales else 0 end) as jan_sales,
    sum(case when s.moy = 2 then s.sales else 0 end) as feb_sales,
    sum(case when s.moy = 3 then s.sales else 0 end) as mar_sales,
    sum(case when s.moy = 4 then s.sales else 0 end) as apr_sales,
    sum(case when s.moy = 5 then s.sales else 0 end) as may_sales,
    sum(case when s.moy = 6 then s.sales else 0 end) as jun_sales,
    sum(case when s.moy = 7 then s.sales else 0 end) as jul_sales,
    sum(case when s.moy = 8 then s.sales else 0 end) as aug_sales,
    sum(case when s.moy = 9 then s.sales else 0 end) as sep_sales,
    sum(case when s.moy = 10 then s.sales else 0 end) as oct_sales,
    sum(case when s.moy = 11 then s.sales else 0 end) as nov_sales,
    sum(case when s.moy = 12 then s.sales else 0 end) as dec_sales,
    cast(sum(case when s.moy = 1 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as jan_sales_per_sq_foot,
    cast(sum(case when s.moy = 2 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as feb_sales_per_sq_foot,
    cast(sum(case when s.moy = 3 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as mar_sales_per_sq_foot,
    cast(sum(case when s.moy = 4 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as apr_sales_per_sq_foot,
    cast(sum(case when s.moy = 5 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as may_sales_per_sq_foot,
    cast(sum(case when s.moy = 6 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as jun_sales_per_sq_foot,
    cast(sum(case when s.moy = 7 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as jul_sales_per_sq_foot,
    cast(sum(case when s.moy = 8 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as aug_sales_per_sq_foot,
    cast(sum(case when s.moy = 9 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as sep_sales_per_sq_foot,
    cast(sum(case when s.moy = 10 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as oct_sales_per_sq_foot,
    cast(sum(case when s.moy = 11 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as nov_sales_per_sq_foot,
    cast(sum(case when s.moy = 12 then s.sales else 0 end) as double)
        / w.w_warehouse_sq_ft as dec_sales_per_sq_foot,
    sum(case when s.moy = 1 then s.net else 0 end) as jan_net,
    sum(case when s.moy = 2 then s.net else 0 end) as feb_net,
    sum(case when s.moy = 3 then s.net else 0 end) as mar_net,
    sum(case when s.moy = 4 then s.net else 0 end) as apr_net,
    sum(case when s.moy = 5 then s.net else 0 end) as may_net,
    sum(case when s.moy = 6 then s.net else 0 end) as jun_net,
    sum(case when s.moy = 7 then s.net else 0 end) as jul_net,
    sum(case when s.moy = 8 then s.net else 0 end) as aug_net,
    sum(case when s.moy = 9 then s.net else 0 end) as sep_net,
    sum(case when s.moy = 10 then s.net else 0 end) as oct_net,
    sum(case when s.moy = 11 then s.net else 0 end) as nov_net,
    sum(case when s.moy = 12 then s.net else 0 end) as dec_net
from shipped s
join warehouse w on w.w_warehouse_sk = s.warehouse_sk
group by w.w_warehouse_name, w.w_warehouse_sq_ft, w.w_city, w.w_county, w.w_state, w.w_country, s.sale_year
order by w.w_warehouse_name nulls first
limit 100;
