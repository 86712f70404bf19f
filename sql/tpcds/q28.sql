-- Asks for six ranges of quantity what list prices there are: the average, how many, and how many different.
-- Shuffles the list prices of each range by their value to count the different ones.
with bucket_1 as (
    select
        avg(ss_list_price) as average_1,
        count(ss_list_price) as count_1,
        count(distinct ss_list_price) as distinct_1
    from store_sales
    where ss_quantity between 0 and 5
        and (
            ss_list_price between 8 and 18
            or ss_coupon_amt between 459 and 1459
            or ss_wholesale_cost between 57 and 77
        )
),
bucket_2 as (
    select
        avg(ss_list_price) as average_2,
        count(ss_list_price) as count_2,
        count(distinct ss_list_price) as distinct_2
    from store_sales
    where ss_quantity between 6 and 10
        and (
            ss_list_price between 90 and 100
            or ss_coupon_amt between 2323 and 3323
            or ss_wholesale_cost between 31 and 51
        )
),
bucket_3 as (
    select
        avg(ss_list_price) as average_3,
        count(ss_list_price) as count_3,
        count(distinct ss_list_price) as distinct_3
    from store_sales
    where ss_quantity between 11 and 15
        and (
            ss_list_price between 142 and 152
            or ss_coupon_amt between 12214 and 13214
            or ss_wholesale_cost between 79 and 99
        )
),
bucket_4 as (
    select
        avg(ss_list_price) as average_4,
        count(ss_list_price) as count_4,
        count(distinct ss_list_price) as distinct_4
    from store_sales
    where ss_quantity between 16 and 20
        and (
            ss_list_price between 135 and 145
            or ss_coupon_amt between 6071 and 7071
            or ss_wholesale_cost between 38 and 58
        )
),
bucket_5 as (
    select
        avg(ss_list_price) as average_5,
        count(ss_list_price) as count_5,
        count(distinct ss_list_price) as distinct_5
    from store_sales
    where ss_quantity between 21 and 25
        and (
            ss_list_price between 122 and 132
            or ss_coupon_amt between 836 and 1836
            or ss_wholesale_cost between 17 and 37
        )
),
bucket_6 as (
    select
        avg(ss_list_price) as average_6,
        count(ss_list_price) as count_6,
        count(distinct ss_list_price) as distinct_6
    from store_sales
    where ss_quantity between 26 and 30
        and (
            ss_list_price between 154 and 164
            or ss_coupon_amt between 7326 and 8326
            or ss_wholesale_cost between 7 and 27
        )
)
select
    average_1,
    count_1,
    distinct_1,
    average_2,
    count_2,
    distinct_2,
    average_3,
    count_3,
    distinct_3,
    average_4,
    count_4,
    distinct_4,
    average_5,
    count_5,
    distinct_5,
    average_6,
    count_6,
    distinct_6
from bucket_1
cross join bucket_2
cross join bucket_3
cross join bucket_4
cross join bucket_5
cross join bucket_6;
