-- Asks which pairs of item categories are bought on one store ticket most often, and what the pairs cost.
-- Shuffles store_sales twice by ticket and joins it with itself: about a dozen rows meet a dozen others on each ticket.
select
    first_item.i_category as first_category,
    second_item.i_category as second_category,
    count(*) as pairs,
    sum(one.ss_ext_sales_price + two.ss_ext_sales_price) as pair_price,
    max(one.ss_ext_discount_amt + two.ss_ext_discount_amt) as largest_discount
from store_sales one
join store_sales two
    on two.ss_ticket_number = one.ss_ticket_number
    and two.ss_item_sk > one.ss_item_sk
join item first_item on first_item.i_item_sk = one.ss_item_sk
join item second_item on second_item.i_item_sk = two.ss_item_sk
group by first_item.i_category, second_item.i_category
order by pairs desc, first_category, second_category;
