-- Asks for the names of products whose manufacturer makes clothes of certain colours, units and sizes.
-- Shuffles the items by manufacturer to find those manufacturers, and the product names to make them distinct.
with makers as (
    select distinct i_manufact as manufact
    from item
    where (
                i_category = 'Women'
                and i_color in ('powder', 'khaki')
                and i_units in ('Ounce', 'Oz')
                and i_size in ('medium', 'extra large')
            )
            or (
                i_category = 'Women'
                and i_color in ('brown', 'honeydew')
                and i_units in ('Bunch', 'Ton')
                and i_size in ('N/A', 'small')
            )
            or (
                i_category = 'Men'
                and i_color in ('floral', 'deep')
                and i_units in ('N/A', 'Dozen')
                and i_size = 'petite'
            )
            or (
                i_category = 'Men'
                and i_color in ('light', 'cornflower')
                and i_units in ('Box', 'Pound')
                and i_size in ('medium', 'extra large')
            )
            or (
                i_category = 'Women'
                and i_color in ('midnight', 'snow')
                and i_units in ('Pallet', 'Gross')
                and i_size in ('medium', 'extra large')
            )
            or (
                i_category = 'Women'
                and i_color in ('cyan', 'papaya')
                and i_units in ('Cup', 'Dram')
                and i_size in ('N/A', 'small')
            )
            or (
                i_category = 'Men'
                and i_color in ('orange', 'frosted')
                and i_units in ('Each', 'Tbl')
                and i_size = 'petite'
            )
            or (
                i_category = 'Men'
                and i_color in ('forest', 'ghost')
                and i_units in ('Lb', 'Bundle')
                and i_size in ('medium', 'extra large')
            )
)
select distinct i.i_product_name
from item i
join makers m on m.manufact = i.i_manufact
where i.i_manufact_id between 738 and 778
order by i.i_product_name
limit 100;
