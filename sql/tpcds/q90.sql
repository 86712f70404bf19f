-- Asks for the ratio of web sales in the morning to those in the evening, to households with six dependents from pages of some length.
-- Shuffles nothing but the partial counts of the one result row.
with halves as (
    select
        count(case when t.t_hour between 8 and 9 then 1 end) as morning,
        count(case when t.t_hour between 19 and 20 then 1 end) as evening
    from web_sales ws
    join household_demographics hd on hd.hd_demo_sk = ws.ws_ship_hdemo_sk and hd.hd_dep_count = 6
    join time_dim t on t.t_time_sk = ws.ws_sold_time_sk
    join web_page p
        on p.wp_web_page_sk = ws.ws_web_page_sk
        and p.wp_char_count between 5000 and 5200
)
select cast(morning as double) / cast(evening as double) as ratio
from halves
order by ratio
limit 100;
