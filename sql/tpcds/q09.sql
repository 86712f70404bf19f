-- Asks for five ranges of quantity what is typical: the discount where many such sales were made, the net payment elsewhere.
-- Shuffles nothing but the partial sums of the one scan.
with ranges as (
    select
        count(case when ss_quantity between 1 and 20 then 1 end) as count_1,
        avg(case when ss_quantity between 1 and 20 then ss_ext_discount_amt end) as discount_1,
        avg(case when ss_quantity between 1 and 20 then ss_net_paid end) as paid_1,
        count(case when ss_quantity between 21 and 40 then 1 end) as count_2,
        avg(case when ss_quantity between 21 and 40 then ss_ext_discount_amt end) as discount_2,
        avg(case when ss_quantity between 21 and 40 then ss_net_paid end) as paid_2,
        count(case when ss_quantity between 41 and 60 then 1 end) as count_3,
        avg(case when ss_quantity between 41 and 60 then ss_ext_discount_amt end) as discount_3,
        avg(case when ss_quantity between 41 and 60 then ss_net_paid end) as paid_3,
        count(case when ss_quantity between 61 and 80 then 1 end) as count_4,
        avg(case when ss_quantity between 61 and 80 then ss_ext_discount_amt end) as discount_4,
        avg(case when ss_quantity between 61 and 80 then ss_net_paid end) as paid_4,
        count(case when ss_quantity between 81 and 100 then 1 end) as count_5,
        avg(case when ss_quantity between 81 and 100 then ss_ext_discount_amt end) as discount_5,
        avg(case when ss_quantity between 81 and 100 then ss_net_paid end) as paid_5
    from store_sales
)
select
    case when count_1 > 74129 then discount_1 else paid_1 end as typical_1,
    case when count_2 > 122840 then discount_2 else paid_2 end as typical_2,
    case when count_3 > 56580 then discount_3 else paid_3 end as typical_3,
    case when count_4 > 10097 then discount_4 else paid_4 end as typical_4,
    case when count_5 > 165306 then discount_5 else paid_5 end as typical_5
from ranges
join reason on r_reason_sk = 1;
