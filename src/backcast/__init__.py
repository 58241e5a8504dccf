"""What would this policy have earned?"""
