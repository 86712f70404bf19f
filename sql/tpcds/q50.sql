-- Asks how long it took until what was returned to each store in August 2001 came back.
-- Shuffles store_sales with store_returns by ticket, item and customer, and the rest by the columns that describe a store.
select
    s.s_store_name,
    s.s_company_id,
    s.s_street_number,
    s.s_street_name,
    s.s_street_type,
    s.s_suite_number,
    s.s_city,
    s.s_county,
    s.s_state,
    s.s_zip,
    sum(case when sr.sr_returned_date_sk - ss.ss_sold_date_sk <= 30 then 1 else 0 end) as within_30_days,
    sum(
        case when sr.sr_returned_date_sk - ss.ss_sold_date_sk > 30
            and sr.sr_returned_date_sk - ss.ss_sold_date_sk <= 60 then 1 else 0 end
    ) as within_60_days,
    sum(
        case when sr.sr_returned_date_sk - ss.ss_sold_date_sk > 60
            and sr.sr_returned_date_sk - ss.ss_sold_date_sk <= 90 then 1 else 0 end
    ) as within_90_days,
    sum(
        case when sr.sr_returned_date_sk - ss.ss_sold_date_sk > 90
            and sr.sr_returned_date_sk - ss.ss_sold_date_sk <= 120 then 1 else 0 end
    ) as within_120_days,
    sum(case when sr.sr_returned_date_sk - ss.ss_sold_date_sk > 120 then 1 else 0 end) as later
from store_sales ss
join store_returns sr
    on sr.sr_ticket_number = ss.ss_ticket_number
    and sr.sr_item_sk = ss.ss_item_sk
    and sr.sr_customer_sk = ss.ss_customer_sk
join store s on s.s_store_sk = ss.ss_store_sk
join date_dim returned
    on returned.d_date_sk = sr.sr_returned_date_sk
    and returned.d_year = 2001
    and returned.d_moy = 8
group by
    s.s_store_name,
    s.s_company_id,
    s.s_street_number,
    s.s_street_name,
    s.s_street_type,
    s.s_suite_number,
    s.s_city,
    s.s_county,
    s.s_state,
    s.s_zip
order by
    s.s_store_name,
    s.s_company_id,
    s.s_street_number,
    s.s_street_name,
    s.s_street_type,
    s.s_suite_number,
    s.s_city,
    s.s_county,
    s.s_state,
    s.s_zip
limit 100;
